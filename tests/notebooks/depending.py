"""Which cells of a notebook depend on what a learner writes, told from the names in them."""

import ast

PROGRESS = {"ladder"}  # what shows a learner's points, from their file


def exercises(cell):
    """Is it a cell in which a learner works?"""
    course = cell.metadata.get("course", {})
    return cell.metadata.get("nbgrader", {}).get("solution") or "exercise" in course


def depending(cells):
    """Places of the code cells that show something else in a notebook with other answers, and of those that
    they need: exercises, checks, what reads a name that comes from an exercise, and definitions.
    """
    cells = [cell for cell in cells if cell.cell_type == "code"]
    names = [_names(cell.source) for cell in cells]
    chosen, theirs = [], set(PROGRESS)
    for place, cell in enumerate(cells):
        read, made = names[place]
        if exercises(cell):
            made = {node.name for node in ast.parse(cell.source).body if isinstance(node, ast.FunctionDef)}
        elif not (read & theirs or cell.metadata.get("nbgrader", {}).get("grade")):
            theirs -= made - PROGRESS
            continue
        chosen.append(place)
        theirs |= made
    needed = set()
    while chosen:
        place = chosen.pop()
        if place in needed:
            continue
        needed.add(place)
        for name in names[place][0]:
            chosen += next(([p] for p in reversed(range(place)) if name in names[p][1]), [])
    return needed


def _names(source):
    """Names that a cell reads from cells before it, and names that it makes."""
    read, made = set(), set()
    for statement in ast.parse(source).body:
        loads, stores = set(), set()
        for node in ast.walk(statement):
            if isinstance(node, ast.Name):
                (loads if isinstance(node.ctx, ast.Load) else stores).add(node.id)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                stores.add(node.name)
            elif isinstance(node, ast.alias):
                stores.add((node.asname or node.name).partition(".")[0])
            elif isinstance(node, ast.arg):
                stores.add(node.arg)
        first = isinstance(statement, ast.Assign | ast.AugAssign)  # its right side is looked at first
        read |= loads - made - (set() if first else stores)
        made |= stores
    return read, made
