package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// LogTraces adds trace_id and span_id to the lines that are logged for a traced call.
func LogTraces(h slog.Handler) slog.Handler { return traceLog{h} }

type traceLog struct{ slog.Handler }

// Handle implements slog.Handler.
func (h traceLog) Handle(ctx context.Context, r slog.Record) error {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		r.AddAttrs(slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h traceLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceLog{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h traceLog) WithGroup(name string) slog.Handler {
	return traceLog{h.Handler.WithGroup(name)}
}
