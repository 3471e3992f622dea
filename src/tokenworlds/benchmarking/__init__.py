"""What a recipe costs on this machine: time, memory and operations of each workload."""
