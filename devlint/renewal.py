"""A run that puts all that is found into the baselines, for `devlint baseline` and `devlint init`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devlint.console import emit
from devlint.escapes import printable
from devlint.failure import CLEAN, FAILED, Failure
from devlint.session import Session

if TYPE_CHECKING:
    from devlint.adoption.baseline import Baseline
    from devlint.options import Options


class Renewal(Session):
    """One run that looks for all findings, to keep them as old ones."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        # The files that couldn't be linted.
        self.unread: list[str] = []

    def renewed_baselines(self) -> list[Baseline]:
        """The baselines with all that is found; those that would hold nothing, and aren't there, are left out."""
        return [renewed for _, renewed in self._renewed() if renewed.marks]

    def write_baselines(self) -> int:
        """Puts all that is found into the baselines, for `devlint baseline`; returns the exit code."""
        from devlint.adoption.baseline import BaselineError, shown_name
        from devlint.reports import counted

        found = self._renewed()
        if not found and not self.failed:
            emit("No findings: there is no baseline to write\n")
        for baseline, renewed in found:
            try:
                renewed.write()
            except BaselineError as error:
                raise Failure(str(error)) from None
            told = f"{len(baseline.sifted.new)} new, {len(baseline.gone)} gone"
            emit(f"{printable(shown_name(baseline.file))}: {counted(len(renewed.marks), 'finding')} ({told})\n")
        return FAILED if self.failed else CLEAN

    def _renewed(self) -> list[tuple[Baseline, Baseline]]:
        """Each baseline that there is something for, as it is, and with all that is found now."""
        from devlint.adoption.baseline import BaselineError
        from devlint.findings import INTERNAL_ERROR

        targets = self.targets()
        results = self._lint(targets)
        for finding in (f for result in results for f in result.findings if f.code == "DEV000"):
            self.failed = True
            if not finding.message.startswith(INTERNAL_ERROR):
                self.unread.append(finding.path)
            self.output.warn("error", f"{finding.path}:{finding.span.line}: {finding.message}")
        try:
            found = self.baselines(results, {t.display: (t.path, t.settings) for t in targets}).by_file.values()
            return [(b, renewed) for b in found if (renewed := b.renewed()).marks or b.marks]
        except BaselineError as error:
            raise Failure(str(error)) from None
