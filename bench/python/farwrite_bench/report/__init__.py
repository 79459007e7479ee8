"""Results as pictures and pages: no other file needed, fit for a phone, readable in the dark."""
