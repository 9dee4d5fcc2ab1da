module github.com/coordsvc/coordsvc/deploy/helm/test

go 1.26.0

replace github.com/coordsvc/coordsvc => ../../..

require (
	github.com/coordsvc/coordsvc v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.5
)

require (
	github.com/alecthomas/kong v1.17.0 // indirect
	github.com/goccy/go-yaml v1.19.2 // indirect
)
