"""One job's inputs split among workers at the rate that each really achieves; pure: time is an argument."""
