"""What differs between targets: profiles, dialects, op support, host validators."""
