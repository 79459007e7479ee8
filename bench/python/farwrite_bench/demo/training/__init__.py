"""``farwrite demo training``: one training job, first over stock gRPC and then over Farwrite.

A parameter server, two workers and a coordinator, real processes, train a network on scikit-learn's
digits. Both transports get the same seeds, the same order of batches and the same settings.
"""
