// Package servertest installs the Helm chart into real Kubernetes API servers: etcd,
// kube-apiserver, the controllers and the scheduler, run as plain processes on this machine, with
// kwok in the place of kubelets. `make chart-test-server` runs it; it needs no container engine,
// no root and no cluster.
//
// What the servers decide is decided as a cluster does it: validation, defaults, Pod Security,
// quotas, rollouts, disruption budgets, evictions, garbage collection. What a node would do is
// played: no image is pulled, no container runs, no probe is made, no packet flows. A Pod turns
// Ready half a second after it was scheduled, and a Pod that is not to be restarted succeeds. So
// the tests prove order, counts, selectors and acceptance, and nothing of the program.
//
// It runs on Linux only: the kernel ends the processes with the test, however that dies, and
// keeps their ports until they listen.
package servertest
