"""The one table of sentences: what is said of each case that is found, by its name. ``cause.sentence`` fills
in the values.
"""

BARRIERS = {
    # units/sync: where threads meet, and the register pool
    "threads at a barrier": "{count} threads came to {barrier}, which {needed} should meet",
    "count of a named barrier": "{who} {who:comes|come} to barrier {number} with {count} threads; "
    "numbers are 0 to 15, counts multiples of 32",
    "counts of a named barrier differ": "{who} {who:comes|come} to barrier {number} with {count} threads, "
    "others with {others}",
    "registers asked for": "{who} {who:asks|ask} for {count} registers",
}

MEMORY: dict[str, str] = {}

SENTENCES = {**BARRIERS, **MEMORY}
