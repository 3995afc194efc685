"""Options are drawn only from the seed, and every drawn configuration is valid."""

from jepsen.simulation.options import DRIVER_FAULTS, Options, Scenario, draw


def draw_options(count: int) -> list[Options]:
    return [draw(seed) for seed in range(count)]


def test_a_seed_always_draws_the_same() -> None:
    assert draw_options(20) == draw_options(20)
    assert len(set(map(str, draw_options(20)))) == 20


def test_every_draw_is_a_valid_driver_configuration() -> None:
    for options in draw_options(300):
        assert options.driver_config().tick_ms == options.tick_ms
        assert options.election_s > options.heartbeat_ticks * options.tick_ms / 1000


def test_every_kind_of_fault_and_every_scenario_is_drawn() -> None:
    options = draw_options(200)
    assert {fault for each in options for fault in each.faults} == set(DRIVER_FAULTS)
    assert {each.scenario for each in options} == set(Scenario)


def test_narrow_scenarios_have_no_fault_that_allows_a_violation() -> None:
    for options in draw_options(300):
        if options.scenario is not Scenario.EVERYTHING:
            assert options.faults == ()
            assert options.link.loss == options.drift_ppm == 0


def test_options_are_printed_one_per_line() -> None:
    lines = str(draw(1)).splitlines()
    assert lines[0] == "seed = 1"
    assert all(" = " in line for line in lines)
