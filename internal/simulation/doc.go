// Package simulation plays the real pool and Finder against simulated brokers.
package simulation
