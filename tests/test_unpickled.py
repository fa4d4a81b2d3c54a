"""What `torch.load` refuses by default is as the table of it says: one of each is saved and loaded."""

import io
import pickle
import re
from pydoc import locate

import pytest
import torch

from devlint.knowledge.unpickled import REFUSED, SAYS_BEFORE_2_6

# What makers have to be given.
_GIVEN = {
    "range": (3,),
    "slice": (1,),
    "functools.partial": (print,),
    "datetime.datetime": (2026, 1, 1),
    **dict.fromkeys((f"numpy.{name}" for name in ("array", "asarray", "zeros", "ones")), (2,)),
    **dict.fromkeys((f"numpy.{name}" for name in ("mean", "max", "min", "sum", "std")), ([1.0, 2.0],)),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_the_table_says_is_refused(name):
    make = locate(name)
    assert callable(make)
    file = io.BytesIO()
    torch.save({"state": torch.ones(2), "part": make(*_GIVEN.get(name, ()))}, file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        torch.load(file)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("torch==1.7.0", True), ("  - pytorch=1.13", True), ("torch<2.6", True), ("torch~=2.5.1", True), ("torch==2", False),
     ("torch>=1.7", False), ("torch==2.13", False), ("torch", False), ("torchvision==0.8", False)],
)  # fmt: skip
def test_papers_of_projects_for_older_releases(text, expected):
    assert (re.search(SAYS_BEFORE_2_6, text) is not None) is expected
