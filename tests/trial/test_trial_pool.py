"""A hang or a death costs one worker and one case, not the campaign."""

from __future__ import annotations

from exogpu.gpu_trial.pool import on_this_machine
from tests.trial import pool_judges


def test_a_hang_is_told_and_the_others_go_on():
    cases = ["1", "hang", "2", "3"]
    found = dict(on_this_machine(2, cases, pool_judges.judge, 1.5))
    assert found.pop("hang") == {"hang": 1.5}
    assert {case: result["double"] for case, result in found.items()} == {"1": 2, "2": 4, "3": 6}


def test_a_spent_process_is_replaced_and_its_result_kept():
    found = dict(on_this_machine(1, ["spent", "4", "spent", "5"], pool_judges.judge, 20))
    assert found["spent"]["wrong"] and found["4"]["double"] == 8
    assert found["4"]["pid"] != found["5"]["pid"] or found["spent"]["pid"] != found["5"]["pid"]


def test_a_death_without_a_watchdog():
    found = dict(on_this_machine(1, ["die", "6"], pool_judges.judge))
    assert found["die"] == {"died": "exit status 9"} and found["6"]["double"] == 12
