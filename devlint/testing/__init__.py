"""For the tests of rule packs: cases that are read as documentation, and pages whose examples are held to.

A case is Markdown whose code says which findings it wants:

    # ACME001: pinned-on-accelerator

    ## A tensor on the accelerator is pinned

    Any prose.

    ```python
    import torch

    x = torch.ones(3, device="cuda")
    x = x.pin_memory()  # want: ACME001
    ```

    ```python fixed
    import torch

    x = torch.ones(3, device="cuda")
    ```

A second-level heading starts a case. Each `python` block is a file of it: `main.py`, or the name that the info string
gives (```` ```python models/net.py ````). `# want: CODE ...` at the end of a line wants exactly these findings to start
on it; `CODE?` wants a `likely` one, `CODE!` a `certain` one. Lines without a comment want none. A `python fixed` block
is what all fixes, the unsafe ones too, make of the file before it, without its `want` comments; `python same` right
after a block says that no fix changes it, `python safe` holds what the safe fixes alone make of it (an empty
block: nothing), and `python suggested` what all make of it, those for display too, which only a person applies. A line `rules: ACME001 DEV301` in the prose selects rules; otherwise the rules in the document's title
are selected, or all that are on by default. A `toml` block holds settings of the case. A line `pending: reason` says
that a rule doesn't get the case right yet, and why: it must fail until that changes.

A pack's test of all its cases and pages:

    @pytest.mark.parametrize("case", cases_in(Path(__file__).parent / "cases"))
    def test_case(case: Case, tmp_path: Path) -> None:
        check_case(case, tmp_path)

    @pytest.mark.parametrize("rule", list(rules_in(acme_rules)), ids=lambda rule: rule.code)
    def test_page(rule: type[Rule], tmp_path: Path) -> None:
        check_page(rule, tmp_path)
"""

from devlint.testing.cases import Case, File, cases_in, read_cases
from devlint.testing.checks import check_case
from devlint.testing.pages import check_page

__all__ = ["Case", "File", "cases_in", "check_case", "check_page", "read_cases"]
