package telemetry

import (
	"context"
	"net"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
	"github.com/coordsvc/coordsvc/service"
)

var _ service.Tracer = (*Tracing)(nil)

// Traced implements service.Tracer.
func (t *Tracing) Traced(ctx context.Context) bool {
	return trace.SpanContextFromContext(ctx).IsSampled()
}

// Batch implements service.Tracer. A batch is asked for many calls and so belongs to
// many traces. It stands in that of the first call, as its child, with a link to
// every call that it is asked for; and each call has a link to the batch.
func (t *Tracing) Batch(ctx context.Context, calls []context.Context, keyType kafkawire.KeyType, keys int) (batch context.Context, done func([]service.Result)) {
	links := make([]trace.Link, len(calls))
	for i, call := range calls {
		links[i] = trace.Link{SpanContext: trace.SpanContextFromContext(call)}
	}
	parent := trace.ContextWithSpanContext(ctx, links[0].SpanContext)
	batch, span := t.tracer.Start(parent, "batch", trace.WithLinks(links...), trace.WithAttributes(
		attribute.String("coordsvc.key_type", keyType.String()), attribute.Int("coordsvc.keys", keys)))
	for _, call := range calls {
		trace.SpanFromContext(call).AddLink(trace.Link{SpanContext: span.SpanContext()})
	}
	return batch, func(results []service.Result) {
		failed := 0
		for i := range results {
			if results[i].Err != nil {
				failed++
			}
		}
		span.SetAttributes(attribute.Int("coordsvc.failed", failed))
		span.End()
	}
}

// Exchange implements service.Tracer.
func (t *Tracing) Exchange(batch context.Context) (done func(service.Exchange)) {
	_, span := t.tracer.Start(batch, "FindCoordinator", trace.WithSpanKind(trace.SpanKindClient))
	return func(e service.Exchange) {
		defer span.End()
		span.SetAttributes(
			attribute.Int("coordsvc.kafka.api_version", int(e.Version)), attribute.Int("coordsvc.kafka.node_id", int(e.Node)),
			attribute.Int("coordsvc.kafka.requests", e.Requests), attribute.Int("coordsvc.kafka.answered", e.Answered),
			attribute.Int("coordsvc.keys", e.Keys))
		if host, port, err := net.SplitHostPort(e.Broker); err == nil {
			span.SetAttributes(attribute.String("server.address", host))
			if n, err := strconv.Atoi(port); err == nil {
				span.SetAttributes(attribute.Int("server.port", n))
			}
		}
		if e.Err != nil {
			kind, text := other, "" // a text that is not the pool's may quote a key
			if k := pool.KindOf(e.Err); k != 0 {
				kind, text = k.String(), e.Err.Error()
			}
			span.SetAttributes(attribute.String("error.type", kind))
			span.SetStatus(otelcodes.Error, text)
		}
	}
}
