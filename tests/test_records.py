"""What `devlint.records` makes of a class."""

from __future__ import annotations

from devlint.records import record


@record
class Link:
    to: Link | None = None


def test_a_record_that_leads_back_to_itself_is_spelt_once():
    link = Link()
    link.to = link
    assert repr(link).count("Link(") == 1
