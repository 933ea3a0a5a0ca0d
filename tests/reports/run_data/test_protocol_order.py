from exitbench.reports.run_data.protocol_order import cautious_first, leading_protocol


def test_out_of_sample_comes_before_in_sample_whatever_the_suites_order():
    assert cautious_first(["in-sample", "cross-fit"]) == ["cross-fit", "in-sample"]
    assert leading_protocol(["in-sample", "cross-fit", "held-out"]) == "held-out"
    assert leading_protocol(["in-sample"]) == "in-sample", "shown where there is no other"
    assert leading_protocol([]) == "in-sample"


def test_an_unknown_protocol_comes_last():
    assert cautious_first(["later", "in-sample"]) == ["in-sample", "later"]
