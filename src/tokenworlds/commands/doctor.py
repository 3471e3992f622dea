"""`tokenworlds doctor`."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from tokenworlds.commands.options import Json

SIGNS = {"good": "ok", "note": "--", "bad": "!!"}


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Check whether this machine is fit to train on."""

    json: Json = False
    """Print one JSON document."""

    def execute(self) -> int:
        """Look at everything; exits with 1 if something does not work that training needs."""
        from tokenworlds.core.process import prepare_process

        prepare_process()
        from tokenworlds.recipes.catalogue import load
        from tokenworlds.training.doctor import examine

        findings = []
        for finding in examine(load("step-vq-m", "nano").recipe, Path("runs")):
            findings.append(finding)
            if not self.json:
                print(f"{SIGNS[finding.state]}  {finding.name:18} {finding.said}", flush=True)
        fit = all(finding.state != "bad" for finding in findings)
        if self.json:
            found = [dataclasses.asdict(finding) for finding in findings]
            print(json.dumps({"fit": fit, "findings": found}, indent=2))
        else:
            print("This machine is fit." if fit else "Something above (!!) needs attention.")
        return 0 if fit else 1
