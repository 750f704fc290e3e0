"""What engines share that run attempts as processes: their folders, outputs, environments and ends."""
