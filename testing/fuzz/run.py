"""Runs the fuzz targets side by side and prints a line for each:

    fuzz batch: 812345 executions in 65 s (12497/s), corpus 412 inputs (118 kB), coverage 1204 edges, 3312 features

Exit status 1 if a target found something: its report and the input, as base64, are printed. `--keep DIR`
keeps the corpora with what was found, smallest set with the same coverage, to be added to `corpus/`.
"""

import argparse
import base64
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TARGETS = {  # most bytes of an input
    "frame": 4096,
    "schema": 4096,
    "c_schema": 1024,
    "batch": 8192,
    "csv": 4096,
    "arrow_file": 8192,
    "tf_record": 4096,
    "tf_example": 2048,
    "control": 8192,
    "recording": 8192,
    "kube_config": 4096,
    "cluster_file": 4096,
    "hostlist": 512,
    "tf_config": 2048,
    "json_lines": 2048,
    "gpu_lines": 4096,
}
# One input never takes long or much memory: a hostile length must not be believed.
LIMITS = ["-timeout=20", "-rss_limit_mb=2048", "-malloc_limit_mb=64"]
DONE = re.compile(r"#(\d+)\s+DONE\s+cov: (\d+) ft: (\d+) corp: (\d+)/(\S+)")
REPORT_LINES = 60


def binary(target):
    return str(pathlib.Path("testing/fuzz", f"{target}_fuzzer").resolve())


class Run:
    def __init__(self, target, seconds, work):
        self.target = target
        self.found = work / target / "corpus"
        self.artifacts = work / target / "artifacts"
        self.log = work / target / "log"
        for folder in (self.found, self.artifacts):
            folder.mkdir(parents=True)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [
                    binary(target),
                    f"-max_total_time={seconds}",
                    f"-max_len={TARGETS[target]}",
                    f"-artifact_prefix={self.artifacts}/",
                    "-print_final_stats=1",
                    *LIMITS,
                    str(self.found),
                    str(HERE / "corpus" / target),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def finish(self):
        """Waits; prints the line, or the report. True if nothing was found."""
        status = self.process.wait()
        log = self.log.read_text(errors="replace")
        done = DONE.search(log)
        rate = re.search(r"stat::average_exec_per_sec:\s+(\d+)", log)
        seconds = re.search(r"Done \d+ runs in (\d+) second", log)
        if status == 0 and done and rate and seconds:
            executions, edges, features, inputs, size = done.groups()
            print(
                f"fuzz {self.target}: {executions} executions in {seconds[1]} s ({rate[1]}/s), "
                f"corpus {inputs} inputs ({size}), coverage {edges} edges, {features} features",
                flush=True,
            )
            return True
        print(f"fuzz {self.target}: FAILED with status {status}")
        print("\n".join(log.splitlines()[-REPORT_LINES:]))
        for path in sorted(self.artifacts.iterdir()):
            text = base64.b64encode(path.read_bytes()).decode()
            print(f"{path.name}, as base64:\n{text}")
        sys.stdout.flush()
        return False

    def keep(self, folder):
        """The smallest set of inputs with the coverage of all, seeds included."""
        to = folder / self.target
        to.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [binary(self.target), "-merge=1", str(to), str(HERE / "corpus" / self.target), str(self.found)],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=int, default=65, help="of each target")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--keep", type=pathlib.Path, help="folder for what was found; an absolute path")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fuzz") as work:
        runs = []
        try:
            runs = [Run(target, options.seconds, pathlib.Path(work)) for target in options.targets]
            good = [run.finish() for run in runs]
        finally:
            for run in runs:
                run.process.kill()
                run.process.wait()
        if options.keep:
            for run in runs:
                run.keep(options.keep)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
