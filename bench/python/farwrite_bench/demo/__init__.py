"""``farwrite demo``: an array handed to another process in four ways, and a training job."""
