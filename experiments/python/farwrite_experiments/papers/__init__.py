"""What the papers measured, beside what this machine measured."""
