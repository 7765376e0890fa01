class Peer:
    def __init__(self, vocabulary): raise ValueError("not yet")
