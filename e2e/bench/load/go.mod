module pawl.dev/pawl/e2e/bench/load

go 1.25.0
