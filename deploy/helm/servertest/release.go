//go:build linux

package servertest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// release is a release of the chart, made with one of the Helms.
type release struct {
	*controlPlane
	helm      string // path of the program
	helm3     bool
	chart     string
	namespace string
	name      string
	values    []string // flags
}

// Labels of the Pods that serve.
func (r *release) selector() string {
	return "app.kubernetes.io/component=server,app.kubernetes.io/instance=" + r.name
}

// render is what the chart comes to, for what this server can do.
func (r *release) render(ctx context.Context) (string, error) {
	ask := "--dry-run=server"
	if r.helm3 { // whose --dry-run=server does not ask the server what it can do
		ask = "--validate"
	}
	out, err := r.run(ctx, "", r.helm, append([]string{"template", r.name, r.chart, "-n", r.namespace, ask}, r.values...)...)
	return out.stdout, err
}

// acceptStrictly has the server check the objects without storing them, and returns how many
// there are. A warning is an error: Pod Security warns of a Deployment whose Pods it would refuse.
func (c *controlPlane) acceptStrictly(ctx context.Context, namespace, objects string) (n int, err error) {
	// A Pod is only accepted if its service account is there.
	if accounts := serviceAccounts(objects); accounts != "" {
		if _, err := c.kubectlInput(ctx, accounts, "-n", namespace, "apply", "-f", "-"); err != nil {
			return 0, err
		}
		defer func() {
			_, undo := c.kubectlInput(ctx, accounts, "-n", namespace, "delete", "-f", "-")
			err = errors.Join(err, undo)
		}()
	}
	out, err := c.kubectlInput(ctx, objects, "-n", namespace, "apply", "--dry-run=server", "--validate=strict", "-f", "-")
	if err != nil {
		return 0, err
	}
	return strings.Count(out.stdout, "(server dry run)"), warnings(out)
}

func serviceAccounts(objects string) string {
	var accounts []string
	for document := range strings.SplitSeq(objects, "\n---\n") {
		if strings.Contains("\n"+document, "\nkind: ServiceAccount\n") {
			accounts = append(accounts, document)
		}
	}
	return strings.Join(accounts, "\n---\n")
}

// warnings are the ones that the server sent, as Helm or kubectl show them.
func warnings(out output) error {
	var told []error
	for line := range strings.Lines(out.stderr) {
		if warning.MatchString(line) {
			told = append(told, errors.New(strings.TrimSpace(line)))
		}
	}
	return errors.Join(told...)
}

// "Warning: ..." of kubectl, "W1130 12:00:00 ..." of Helm 3, "level=WARN" of Helm 4.
var warning = regexp.MustCompile(`(?i)^warning|^W\d{4} |level=warn|would violate|unknown field`)

// change runs `helm install`, `upgrade` or `rollback` and waits until everything is ready.
func (r *release) change(ctx context.Context, args ...string) error {
	out, err := r.helmCommand(ctx, append(args, "--wait", "--timeout=90s")...)
	if err != nil {
		return err
	}
	return warnings(out)
}

func (r *release) install(ctx context.Context) error {
	return r.change(ctx, append([]string{"install", r.name, r.chart}, r.values...)...)
}

func (r *release) upgrade(ctx context.Context, more ...string) error {
	return r.change(ctx, append(append([]string{"upgrade", r.name, r.chart}, r.values...), more...)...)
}

func (r *release) rollback(ctx context.Context, revision string) error {
	return r.change(ctx, "rollback", r.name, revision)
}

func (r *release) uninstall(ctx context.Context) error {
	return r.change(ctx, "uninstall", r.name)
}

func (r *release) helmCommand(ctx context.Context, args ...string) (output, error) {
	return r.run(ctx, "", r.helm, append(args, "-n", r.namespace)...)
}

// test runs `helm test` and returns how many Pods it ran.
func (r *release) test(ctx context.Context) (int, error) {
	out, err := r.helmCommand(ctx, "test", r.name, "--timeout=60s")
	if err != nil {
		return 0, err
	}
	return len(succeeded.FindAllString(out.stdout, -1)), warnings(out)
}

var succeeded = regexp.MustCompile(`(?m)^Phase: +Succeeded$`)

// wanted is how many Pods the release asks for: the autoscaler's least, which has no measurements
// here, or the Deployment's number.
func (r *release) wanted(ctx context.Context) (int, error) {
	objects, err := r.get(ctx, r.namespace, "deployments,horizontalpodautoscalers", "app.kubernetes.io/instance="+r.name)
	if err != nil {
		return 0, err
	}
	wanted := -1
	for _, o := range objects {
		switch o.Kind {
		case "HorizontalPodAutoscaler":
			return *o.Spec.MinReplicas, nil
		case "Deployment":
			wanted = *o.Spec.Replicas
		}
	}
	if wanted < 0 {
		return 0, fmt.Errorf("release %s has no Deployment", r.name)
	}
	return wanted, nil
}

// pods returns the Pods of the release once there are as many as wanted, all on a node and ready.
func (r *release) pods(ctx context.Context, wanted int, within time.Duration) ([]object, error) {
	var pods []object
	err := r.eventually(ctx, within, func() error {
		var err error
		if pods, err = r.get(ctx, r.namespace, "pods", r.selector()); err != nil {
			return err
		}
		ready := 0
		for _, p := range pods {
			if p.ready() && p.Spec.NodeName != "" {
				ready++
			}
		}
		if ready != wanted || len(pods) != wanted {
			return fmt.Errorf("release %s has %d Pods, %d of them ready; %d are wanted", r.name, len(pods), ready, wanted)
		}
		return nil
	})
	return pods, err
}

// revision is the hash of the Pod template that all the Pods are of.
func revision(pods []object) (string, error) {
	const label = "pod-template-hash"
	for _, p := range pods {
		if p.Metadata.Labels[label] != pods[0].Metadata.Labels[label] {
			return "", errors.New("the Pods are of several revisions")
		}
	}
	return pods[0].Metadata.Labels[label], nil
}
