"""What benchmarks in Python have in common: figures, and what is said of them."""

import json
import pathlib

ROOT = pathlib.Path(__file__).parent.parent.parent


def figures(output):
    """What an application has written in lines FIGURE, one object each."""
    return [json.loads(line[len("FIGURE ") :]) for line in output.splitlines() if line.startswith("FIGURE ")]


def report(name, ours, ref, unit, reference, ratio, goal, at_most=False):
    """One result beside its reference, said in a line BENCH; the ratio has a goal, which is the least or the most,
    or None."""
    reached = goal is None or (ratio <= goal if at_most else ratio >= goal)
    result = {
        "name": name, "ours": ours, "ref": ref, "unit": unit, "reference": reference, "ratio": ratio, "goal": goal,
        "verdict": "ok" if reached else "short",
    }
    print(
        "BENCH {name} ours={ours:.4g}{unit} ref={ref:.4g}{unit} ({reference}) ratio={ratio:.2f} goal={} "
        "{verdict}".format("none" if goal is None else goal, **result)
    )
    return result
