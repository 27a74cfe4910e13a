"""Why a request does not fit, and the smallest change that would let it fit."""
