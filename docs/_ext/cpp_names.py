"""setup"""
def setup(app): return {}
