// Nothing is compiled from this module: it carries a Python 3.10 for Linux on amd64 and on arm64, which
// src/fairlead/lab/python310.py unpacks. `go mod tidy` would drop it; to change it: go get MODULE@VERSION.
module fairlead.test/python310

go 1.26.0

require github.com/kluctl/go-embed-python v0.0.0-3.10.16-20241219-1
