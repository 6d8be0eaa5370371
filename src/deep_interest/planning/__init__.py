"""What each stage of a dataset needs in memory, disk and time, before it is run: `plan.make_plan`."""
