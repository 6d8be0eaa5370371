"""What operations and kernels run on: compilation and its cache, threads, memory, copies between host and device."""
