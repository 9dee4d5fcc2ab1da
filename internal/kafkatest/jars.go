package kafkatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Available says in one line what is missing to run real Kafka, or nil.
func Available() error {
	var missing []string
	if _, err := javaPath(); err != nil {
		missing = append(missing, "java (17 or later)")
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		missing = append(missing, "mvn (Apache Maven)")
	}
	if len(missing) > 0 {
		return errors.New("real Kafka cannot be started here, missing: " + strings.Join(missing, ", "))
	}
	return nil
}

func javaPath() (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return exec.LookPath(filepath.Join(home, "bin", "java"))
	}
	return exec.LookPath("java")
}

// cacheDir is where the jars of all releases are kept between runs.
func cacheDir() (string, error) {
	if dir := os.Getenv("KAFKATEST_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for Kafka's jars, set KAFKATEST_CACHE: %w", err)
	}
	return filepath.Join(dir, "coordsvc", "kafka"), nil
}

// jars returns a folder with the jars of a release, fetched by Maven the first
// time (about 45 MB, some seconds). The folder appears in one step, so a run
// that is cut short leaves nothing half done behind.
func jars(ctx context.Context, r release) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	project := projectFile(r.artifacts())
	// A folder for each list of artifacts: an altered list must not find old jars.
	dir := filepath.Join(cache, fmt.Sprintf("%s-%08x", r.name, crc32.ChecksumIEEE(project)))
	if isDir(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("folder for Kafka's jars: %w", err)
	}
	// One Maven at a time: its own repository does not stand two.
	unlock, err := lockFile(filepath.Join(cache, ".lock"))
	if err != nil {
		return "", fmt.Errorf("lock the folder of Kafka's jars: %w", err)
	}
	defer unlock()
	if isDir(dir) { // fetched while we waited
		return dir, nil
	}
	if err := fetchJars(ctx, project, dir); err != nil {
		return "", fmt.Errorf("fetch the jars of Kafka %s with Maven: %w", r.name, err)
	}
	return dir, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func fetchJars(ctx context.Context, project []byte, dir string) error {
	work, err := os.MkdirTemp(filepath.Dir(dir), ".fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	pom := filepath.Join(work, "pom.xml")
	if err := os.WriteFile(pom, project, 0o644); err != nil {
		return err
	}
	out := filepath.Join(work, "jars")
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-C", "-f", pom,
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+out)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, lastLines(output, 5))
	}
	found, err := filepath.Glob(filepath.Join(out, "kafka_*.jar"))
	if err != nil || len(found) == 0 {
		return errors.Join(err, errors.New("it left no kafka_*.jar"))
	}
	if err := os.Rename(out, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func projectFile(list []artifact) []byte {
	var b bytes.Buffer
	b.WriteString(`<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>` +
		"<groupId>coordsvc</groupId><artifactId>kafka-jars</artifactId><version>1</version><dependencies>\n")
	for _, a := range list {
		part := strings.SplitN(string(a), ":", 3)
		fmt.Fprintf(&b, "<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>\n",
			part[0], part[1], part[2])
	}
	b.WriteString("</dependencies></project>\n")
	return b.Bytes()
}

// lastLines is the end of a program's output, for an error message.
func lastLines(output []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
