"""The order of small accelerators by network, as published and as predicted from data sheets."""
