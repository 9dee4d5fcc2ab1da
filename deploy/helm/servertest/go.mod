module github.com/coordsvc/coordsvc/deploy/helm/servertest

go 1.26.0
