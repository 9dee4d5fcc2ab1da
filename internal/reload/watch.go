package reload

import (
	"context"
	"log/slog"
	"time"
)

// Interval is how often the files are read: a new certificate is in use that much
// after it was written. Kubernetes itself takes a minute to bring a changed Secret
// into a pod.
const Interval = 10 * time.Second

// Watched is what Watch looks after; a *Value is.
type Watched interface {
	Files() []File
	Check() (changed bool, err error)
	Status() Status
}

// Watch checks the values every so often until ctx is done, and logs what changed.
func Watch(ctx context.Context, every time.Duration, logger *slog.Logger, values ...Watched) {
	if len(values) == 0 {
		return
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		for _, v := range values {
			Refresh(v, logger)
		}
	}
}

// Refresh checks a value, and logs what changed.
func Refresh(v Watched, logger *slog.Logger) {
	changed, err := v.Check()
	if !changed {
		return
	}
	settings := make([]string, 0, len(v.Files()))
	for _, file := range v.Files() {
		settings = append(settings, file.Setting)
	}
	if err != nil {
		logger.Error("changed files cannot be used: what they held before stays in use until they are mended",
			"settings", settings, "error", err)
		return
	}
	logger.Info("changed files are in use", "settings", settings)
}
