module mbuma/lab/wan

go 1.25

require (
	golang.org/x/sys v0.17.0
	gvisor.dev/gvisor v0.0.0-20240916094835-a174eb65023f
)

require (
	github.com/google/btree v1.1.2 // indirect
	golang.org/x/time v0.5.0 // indirect
)
