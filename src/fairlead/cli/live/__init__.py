"""What live screens share: styled text, keys, escape sequences, a terminal that is restored, the loop."""
