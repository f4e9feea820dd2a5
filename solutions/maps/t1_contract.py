"""Case t1: eight tensor maps that the driver refuses, each mended by changing one field."""

from dataclasses import replace


def mend(maps):
    ### BEGIN SOLUTION: return the eight maps in order, each made legal by one changed field
    tall, odd_stride, odd_row, narrow_span, integer_nan, far_steps, large, later_chip = maps
    return [
        replace(tall, box=(64, 256)),
        replace(odd_stride, strides=(2064,)),
        replace(odd_row, box=(64, 128)),
        replace(narrow_span, swizzle=3),
        replace(integer_nan, oob_fill=0),
        replace(far_steps, element_strides=(1, 8)),
        replace(large, box=(64, 256, 4)),
        replace(later_chip, swizzle=3),
    ]
    ### END SOLUTION
