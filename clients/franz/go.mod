module franz

go 1.26.0

require github.com/twmb/franz-go v1.19.5

require github.com/twmb/franz-go/pkg/kadm v1.16.0

require (
	github.com/klauspost/compress v1.18.0 // indirect
	github.com/pierrec/lz4/v4 v4.1.22 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.11.2 // indirect
	golang.org/x/crypto v0.38.0 // indirect
)
