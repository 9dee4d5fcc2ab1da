//go:build never

// Package crds pins the modules that custom resource definitions are copied from. It is never
// built: the imports keep the modules in go.mod.
package crds

import (
	_ "github.com/prometheus-operator/prometheus-operator/pkg/server"
	_ "sigs.k8s.io/gateway-api/apis/v1"
)
