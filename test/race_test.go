//go:build race

package test

// buildFlags build the program under the race detector when the tests are.
var buildFlags = []string{"-race"}
