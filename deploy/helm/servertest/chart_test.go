//go:build linux

package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The oldest Kubernetes that the chart is for, and the newest: folders of tools/kubernetes.
var kubernetes = []string{"1.37", "1.34"}

// The Helms: names in .tools.
var helms = []string{"helm4", "helm3"}

const (
	chart       = "../coordsvc"
	plainValues = chart + "/ci/plain-values.yaml"
	nodes       = 3
	// The chart waits long between Pods of a rollout, for gRPC clients' sake; here nobody calls.
	fast = "--set=minReadySeconds=1"
)

// One check prints at a time.
var printing sync.Mutex

// check runs a check and prints its outcome, now and not when the test ends. A check that fails ends the test.
func check(t *testing.T, name string, run func(context.Context) (detail string, err error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	start := time.Now()
	detail, err := run(ctx)
	verdict := "ok  "
	if err != nil {
		verdict, detail = "FAIL", strings.ReplaceAll(err.Error(), "\n", "\n      ")
	}
	printing.Lock()
	fmt.Fprintf(os.Stdout, "%s %5.1fs  %-17s%s: %s\n", verdict, time.Since(start).Seconds(),
		strings.TrimPrefix(t.Name(), "TestChart/"), name, detail)
	printing.Unlock()
	if err != nil {
		t.FailNow() // what was printed says why
	}
}

// scratch is where the control planes keep their keys, data and logs.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "coordsvc-kubernetes-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupt
		os.RemoveAll(scratch)
		os.Exit(1) // the kernel ends the programs with us
	}()
	code := m.Run()
	if code == 0 {
		os.RemoveAll(scratch)
	}
	os.Exit(code)
}

func TestChart(t *testing.T) {
	for _, version := range kubernetes {
		t.Run(version, func(t *testing.T) {
			t.Parallel() // most of the time they wait
			c := startedControlPlane(t, version)
			for _, helm := range helms {
				t.Run(helm, func(t *testing.T) { testChart(t, c, helm) })
			}
			if t.Failed() {
				return
			}
			t.Run("helm3-helm4", func(t *testing.T) { testHandover(t, c) })
		})
	}
}

// startedControlPlane runs for as long as the test. Its logs stay if the test fails.
func startedControlPlane(t *testing.T, version string) *controlPlane {
	dir := filepath.Join(scratch, version)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var c *controlPlane
	t.Cleanup(func() {
		if c != nil {
			c.stop()
		}
		if t.Failed() {
			fmt.Fprintf(os.Stdout, "the logs of Kubernetes %s: %s/*.log\n", version, dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	programs, kwok, crds := built(t, version), built(t, "kwok"), built(t, "crds")
	check(t, "control plane", func(ctx context.Context) (string, error) {
		var err error
		if c, err = startControlPlane(ctx, dir, programs, kwok, nodes); err != nil {
			return "", err
		}
		out, err := c.kubectl(ctx, "version", "-o", "yaml")
		if err != nil {
			return "", err
		}
		return "Kubernetes " + gitVersion(out.stdout), nil
	})
	check(t, "custom resource definitions", func(ctx context.Context) (string, error) {
		// On the server's side: the client's way keeps a copy in an annotation, which has room for 262144 bytes.
		if _, err := c.kubectl(ctx, "apply", "--server-side", "-f", crds); err != nil {
			return "", err
		}
		out, err := c.kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "-f", crds)
		return fmt.Sprintf("%d established", strings.Count(out.stdout, "condition met")), err
	})
	return c
}

func built(t *testing.T, name string) (folder string) {
	folder, err := build(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

func gitVersion(yaml string) string {
	var version string
	for line := range strings.Lines(yaml) {
		if v, is := strings.CutPrefix(strings.TrimSpace(line), "gitVersion: "); is {
			version = v // the server's stands after the client's
		}
	}
	return version
}

// testChart takes the chart through its life in a namespace of its own, which enforces Pod
// Security `restricted`.
func testChart(t *testing.T, c *controlPlane, helm string) {
	files, err := filepath.Glob(filepath.Join(chart, "ci", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the chart has no values files in ci/: %v", err)
	}
	plain := newRelease(t, c, helm, "coordsvc", plainValues)

	var kinds resources
	var before []string
	check(t, "namespace that enforces restricted", func(ctx context.Context) (_ string, err error) {
		if kinds, err = c.resources(ctx); err != nil {
			return "", err
		}
		before, err = c.restrictedNamespace(ctx, kinds, plain.namespace)
		return fmt.Sprintf("%d objects before anything is installed, of %d kinds", len(before), len(strings.Split(kinds.namespaced+","+kinds.cluster, ","))), err
	})
	nothingLeft := func(ctx context.Context) (string, error) {
		return "the same objects as before", c.eventually(ctx, 30*time.Second, func() error {
			now, err := c.inventory(ctx, kinds, plain.namespace)
			return errors.Join(err, difference(before, now))
		})
	}

	for _, file := range files {
		check(t, "strict validation of "+filepath.Base(file), func(ctx context.Context) (string, error) {
			objects, err := newRelease(t, c, helm, "coordsvc", file).render(ctx)
			if err != nil {
				return "", err
			}
			n, err := c.acceptStrictly(ctx, plain.namespace, objects)
			return fmt.Sprintf("%d objects accepted", n), err
		})
	}
	check(t, "strict validation of releases called 1 and y", func(ctx context.Context) (string, error) {
		for _, name := range []string{"1", "y"} { // a number and a boolean, where a template does not quote them
			objects, err := newRelease(t, c, helm, name, plainValues).render(ctx)
			if err != nil {
				return "", err
			}
			if _, err := c.acceptStrictly(ctx, plain.namespace, objects); err != nil {
				return "", err
			}
		}
		return "accepted", nil
	})
	testThatFaultsAreSeen(t, plain, kinds, before)
	testLife(t, plain)
	check(t, "nothing is left", nothingLeft)

	var all []*release
	for _, file := range files {
		all = append(all, newRelease(t, c, helm, strings.TrimSuffix(filepath.Base(file), "-values.yaml"), file))
	}
	testSideBySide(t, all)
	check(t, "nothing is left", nothingLeft)
}

// newRelease is a release yet to be made, with one of the Helms, in that Helm's namespace.
func newRelease(t *testing.T, c *controlPlane, helm, name, values string) *release {
	if _, err := os.Stat(filepath.Join(repository, ".tools", helm)); err != nil {
		t.Fatalf("%v: run make tools", err)
	}
	return &release{
		controlPlane: c, helm: filepath.Join(repository, ".tools", helm), helm3: helm == "helm3",
		chart: chart, namespace: "coordsvc-" + helm, name: name, values: []string{"--values=" + values, fast},
	}
}

// restrictedNamespace returns what there is before anything is installed into it.
func (c *controlPlane) restrictedNamespace(ctx context.Context, kinds resources, name string) ([]string, error) {
	const level = "pod-security.kubernetes.io/"
	for _, args := range [][]string{
		{"create", "namespace", name},
		{"label", "namespace", name, level + "enforce=restricted", level + "warn=restricted", level + "audit=restricted"},
		{"wait", "-n", name, "--for=create", "serviceaccount/default", "configmap/kube-root-ca.crt", "--timeout=30s"},
	} {
		if _, err := c.kubectl(ctx, args...); err != nil {
			return nil, err
		}
	}
	return c.inventory(ctx, kinds, name)
}

// testThatFaultsAreSeen makes the chart wrong and expects the checks to notice: else they would prove nothing.
func testThatFaultsAreSeen(t *testing.T, r *release, kinds resources, before []string) {
	var objects string
	altered := func(right, wrong string) (string, error) {
		if !strings.Contains(objects, right) {
			return "", fmt.Errorf("the chart has no %q to alter", right)
		}
		return strings.ReplaceAll(objects, right, wrong), nil
	}
	check(t, "a misspelt field is seen", func(ctx context.Context) (_ string, err error) {
		if objects, err = r.render(ctx); err != nil {
			return "", err
		}
		wrong, err := altered("replicas:", "replica:")
		if err != nil {
			return "", err
		}
		_, err = r.acceptStrictly(ctx, r.namespace, wrong)
		return expected(err, `unknown field "spec.replica"`)
	})
	check(t, "a Pod that is not restricted is seen", func(ctx context.Context) (string, error) {
		wrong, err := altered("runAsNonRoot: true", "runAsNonRoot: false")
		if err != nil {
			return "", err
		}
		_, err = r.acceptStrictly(ctx, r.namespace, wrong)
		return expected(err, "violate")
	})
	check(t, "Pods that never come are seen", func(ctx context.Context) (string, error) {
		wrong, err := altered("runAsNonRoot: true", "runAsNonRoot: false")
		if err != nil {
			return "", err
		}
		bad := *r
		bad.chart, bad.values = t.TempDir(), nil
		if err := writeChart(bad.chart, wrong); err != nil {
			return "", err
		}
		// Helm is content: the Deployment is accepted, only its Pods are refused.
		out, err := bad.helmCommand(ctx, "install", bad.name, bad.chart)
		if err != nil {
			return "", err
		}
		if warnings(out) == nil {
			return "", fmt.Errorf("no warning was recognised in what Helm said: %q", out.stderr)
		}
		wanted, err := bad.wanted(ctx)
		if err != nil {
			return "", err
		}
		_, err = bad.pods(ctx, wanted, 3*time.Second)
		detail, err := expected(err, fmt.Sprintf("0 Pods, 0 of them ready; %d are wanted", wanted))
		_, undo := bad.helmCommand(ctx, "uninstall", bad.name, "--wait")
		return detail, errors.Join(err, undo)
	})
	check(t, "an object left behind is seen", func(ctx context.Context) (string, error) {
		if _, err := r.kubectl(ctx, "-n", r.namespace, "create", "configmap", "forgotten"); err != nil {
			return "", err
		}
		now, err := r.inventory(ctx, kinds, r.namespace)
		if err != nil {
			return "", err
		}
		detail, err := expected(difference(before, now), "configmap/forgotten")
		_, undo := r.kubectl(ctx, "-n", r.namespace, "delete", "configmap", "forgotten")
		return detail, errors.Join(err, undo)
	})
}

// expected turns an error that says so into success, and everything else into an error.
func expected(err error, says string) (string, error) {
	switch {
	case err == nil:
		return "", fmt.Errorf("nothing was noticed; expected: %s", says)
	case !strings.Contains(err.Error(), says):
		return "", fmt.Errorf("expected: %s; got: %w", says, err)
	}
	return says, nil
}

// writeChart makes a chart of finished objects.
func writeChart(dir, objects string) error {
	if strings.Contains(objects, "{{") {
		return errors.New("the objects hold template expressions")
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "Chart.yaml"), []byte("apiVersion: v2\nname: wrong\nversion: 1.0.0\n"), 0o644),
		os.Mkdir(filepath.Join(dir, "templates"), 0o755),
		os.WriteFile(filepath.Join(dir, "templates", "objects.yaml"), []byte(objects), 0o644),
	)
}

// testLife: install, upgrades, rollback, `helm test`, drains, uninstall.
func testLife(t *testing.T, r *release) {
	var installed []object
	var first string
	check(t, "install", func(ctx context.Context) (string, error) {
		if err := r.install(ctx); err != nil {
			return "", err
		}
		wanted, err := r.wanted(ctx)
		if err != nil {
			return "", err
		}
		if wanted < 2 {
			return "", fmt.Errorf("the chart wants %d Pods; one alone cannot be replaced without a gap", wanted)
		}
		if installed, err = r.pods(ctx, wanted, 30*time.Second); err != nil {
			return "", err
		}
		first, err = revision(installed)
		return fmt.Sprintf("%d Pods of %d ready", len(installed), wanted), err
	})
	check(t, "a Pod that is away is seen", func(ctx context.Context) (string, error) {
		watch, err := r.watchPods(ctx, r.namespace, r.selector(), len(installed))
		if err != nil {
			return "", err
		}
		_, err = r.kubectl(ctx, "-n", r.namespace, "delete", "pod", installed[0].Metadata.Name)
		watch.seen(ctx, len(installed)-1)
		fewest, _, watchErr := watch.stop()
		if fewest != len(installed)-1 {
			err = errors.Join(err, fmt.Errorf("one Pod of %d was deleted; at least %d were seen ready at a time", len(installed), fewest))
		}
		if err := errors.Join(err, watchErr); err != nil {
			return "", err
		}
		installed, err = r.pods(ctx, len(installed), 30*time.Second)
		return fmt.Sprintf("%d ready of %d", fewest, len(installed)), err
	})
	check(t, "an upgrade that changes nothing", func(ctx context.Context) (string, error) {
		if err := r.upgrade(ctx); err != nil {
			return "", err
		}
		pods, err := r.pods(ctx, len(installed), 30*time.Second)
		return "the same Pods run", errors.Join(err, difference(uids(installed), uids(pods)))
	})
	check(t, "an upgrade that changes a setting", func(ctx context.Context) (string, error) {
		return r.rollout(ctx, installed, func() error { return r.upgrade(ctx, "--set=config.log.level=debug") })
	})
	check(t, "rollback", func(ctx context.Context) (string, error) {
		changed, err := r.pods(ctx, len(installed), 30*time.Second)
		if err != nil {
			return "", err
		}
		detail, err := r.rollout(ctx, changed, func() error { return r.rollback(ctx, "1") })
		if err != nil {
			return "", err
		}
		pods, err := r.pods(ctx, len(installed), 30*time.Second)
		if err != nil {
			return "", err
		}
		now, err := revision(pods)
		if now != first {
			err = errors.Join(err, fmt.Errorf("the Pods are of revision %s, not of %s, the first", now, first))
		}
		return detail + ", of the first revision", err
	})
	check(t, "helm test", func(ctx context.Context) (string, error) {
		n, err := r.test(ctx)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d Pods ran, not 1", n)
		}
		return "1 Pod ran and succeeded", err
	})
	testDrains(t, r)
	check(t, "uninstall", func(ctx context.Context) (string, error) { return "done", r.uninstall(ctx) })
}

// rollout makes a change that must replace all Pods, and none before its successor is ready.
func (r *release) rollout(ctx context.Context, old []object, change func() error) (string, error) {
	watch, err := r.watchPods(ctx, r.namespace, r.selector(), len(old))
	if err != nil {
		return "", err
	}
	err = change()
	fewest, most, watchErr := watch.stop()
	if err := errors.Join(err, watchErr); err != nil {
		return "", err
	}
	pods, err := r.pods(ctx, len(old), 30*time.Second)
	if err != nil {
		return "", err
	}
	for _, uid := range uids(pods) {
		if slices.Contains(uids(old), uid) {
			return "", fmt.Errorf("Pod %s was not replaced", uid)
		}
	}
	if fewest < len(old) {
		return "", fmt.Errorf("only %d Pods of %d were ready at a time", fewest, len(old))
	}
	return fmt.Sprintf("all %d Pods replaced, never fewer than %d ready, %d at the most", len(old), fewest, most), nil
}

// testDrains empties nodes, under a disruption budget of one Pod and of none.
func testDrains(t *testing.T, r *release) {
	const many = 2 * nodes
	t.Cleanup(func() { // for the other Helm
		for i := range nodes {
			r.kubectl(context.WithoutCancel(t.Context()), "uncordon", fmt.Sprintf("node-%d", i+1))
		}
	})
	drain := func(ctx context.Context, node, timeout string) (output, error) {
		return r.kubectl(ctx, "drain", node, "--ignore-daemonsets", "--timeout="+timeout)
	}
	check(t, "drain under the disruption budget", func(ctx context.Context) (string, error) {
		if err := r.upgrade(ctx, fmt.Sprintf("--set=replicaCount=%d", many)); err != nil {
			return "", err
		}
		pods, err := r.pods(ctx, many, 30*time.Second)
		if err != nil {
			return "", err
		}
		node := busiest(pods) // has two Pods at least, and all are to be evicted at once
		there := len(onNode(pods, node))
		watch, err := r.watchPods(ctx, r.namespace, r.selector(), many)
		if err != nil {
			return "", err
		}
		out, err := drain(ctx, node, "60s")
		if err == nil {
			pods, err = r.pods(ctx, many, 30*time.Second)
		}
		fewest, _, watchErr := watch.stop()
		if err := errors.Join(err, watchErr); err != nil {
			return "", err
		}
		// Often none: the server itself tries an eviction again after half a second when two came together.
		refusals := strings.Count(out.stderr, "would violate the pod's disruption budget")
		switch {
		case len(onNode(pods, node)) > 0:
			return "", fmt.Errorf("%d Pods are still on %s", len(onNode(pods, node)), node)
		case fewest < many-1:
			return "", fmt.Errorf("%d Pods of %d were away at a time; the budget is 1", many-fewest, many)
		case there < 2:
			return "", fmt.Errorf("%s had %d Pods; with fewer than two the budget has nothing to hold back", node, there)
		}
		return fmt.Sprintf("%d Pods moved, %d away at a time, %d evictions refused for a while", there, many-fewest, refusals), nil
	})
	check(t, "drain under a budget of none waits", func(ctx context.Context) (string, error) {
		// Past the chart, which refuses a budget that lets no node be drained.
		if _, err := r.kubectl(ctx, "-n", r.namespace, "patch", "poddisruptionbudget", "coordsvc", "--type=merge",
			`--patch={"spec": {"maxUnavailable": 0}}`); err != nil {
			return "", err
		}
		before, err := r.pods(ctx, many, 30*time.Second)
		if err != nil {
			return "", err
		}
		node := busiest(before)
		_, err = drain(ctx, node, "3s")
		if _, err := expected(err, "would violate the pod's disruption budget"); err != nil {
			return "", err
		}
		after, err := r.pods(ctx, many, 30*time.Second)
		return fmt.Sprintf("after 3 s all %d Pods of the node are there", len(onNode(before, node))),
			errors.Join(err, difference(uids(before), uids(after)))
	})
}

func onNode(pods []object, node string) []object {
	return slices.DeleteFunc(slices.Clone(pods), func(p object) bool { return p.Spec.NodeName != node })
}

// busiest is the node with the most Pods.
func busiest(pods []object) string {
	return slices.MaxFunc(pods, func(a, b object) int {
		return len(onNode(pods, a.Spec.NodeName)) - len(onNode(pods, b.Spec.NodeName))
	}).Spec.NodeName
}

func uids(pods []object) []string {
	var list []string
	for _, p := range pods {
		list = append(list, p.Metadata.UID)
	}
	return list
}

// testSideBySide has a release of each values file in one namespace at a time.
func testSideBySide(t *testing.T, all []*release) {
	each := func(name string, do func(context.Context, *release) (string, error)) {
		check(t, fmt.Sprintf("%s of all %d values files side by side", name, len(all)), func(ctx context.Context) (string, error) {
			details, errs := make([]string, len(all)), make([]error, len(all))
			var wg sync.WaitGroup
			for i, r := range all {
				wg.Go(func() {
					details[i], errs[i] = do(ctx, r)
					details[i] = strings.TrimSpace(r.name + " " + details[i])
				})
			}
			wg.Wait()
			return strings.Join(details, ", "), errors.Join(errs...)
		})
	}
	each("install", func(ctx context.Context, r *release) (string, error) { return "", r.install(ctx) })
	each("Pods", func(ctx context.Context, r *release) (string, error) {
		wanted, err := r.wanted(ctx)
		if err != nil {
			return "", err
		}
		_, err = r.pods(ctx, wanted, 30*time.Second)
		return fmt.Sprint(wanted), err
	})
	each("helm test", func(ctx context.Context, r *release) (string, error) {
		n, err := r.test(ctx)
		return fmt.Sprint(n), err
	})
	each("uninstall", func(ctx context.Context, r *release) (string, error) { return "", r.uninstall(ctx) })
}

// testHandover: a release that Helm 3 made is carried on with Helm 4, which merges fields in another way.
func testHandover(t *testing.T, c *controlPlane) {
	made, next := newRelease(t, c, "helm3", "coordsvc", plainValues), newRelease(t, c, "helm4", "coordsvc", plainValues)
	next.namespace = made.namespace
	check(t, "install by Helm 3, upgrade and uninstall by Helm 4", func(ctx context.Context) (string, error) {
		if err := made.install(ctx); err != nil {
			return "", err
		}
		wanted, err := made.wanted(ctx)
		if err != nil {
			return "", err
		}
		pods, err := made.pods(ctx, wanted, 30*time.Second)
		if err != nil {
			return "", err
		}
		detail, err := next.rollout(ctx, pods, func() error { return next.upgrade(ctx, "--set=config.log.level=debug") })
		return detail, errors.Join(err, next.uninstall(ctx))
	})
}
