package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

// TracingConfig says where spans go, and of how many calls.
type TracingConfig struct {
	// Endpoint is the collector's base URL, http://host:4318; spans are posted to
	// /v1/traces below it (OTLP over HTTP, protobuf). https:// is TLS.
	Endpoint string
	// SampleRatio is the share of the calls that are traced, 0 to 1. A call whose
	// caller says whether it is traced (W3C traceparent) follows the caller.
	SampleRatio float64
	// Version is shown as service.version.
	Version string
	// Logger is told when spans are not delivered. Default: nobody is.
	Logger *slog.Logger
	// Exporter, if set, gets the spans instead of the collector.
	Exporter sdktrace.SpanExporter
}

// Tracing makes a span of every traced call, and of the batches and exchanges that
// it led to. It is a service.Tracer.
//
// Spans never hold a key: keys are names of customers as often as not, and traces
// are kept longer and shown to more people than logs.
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	exporter sdktrace.SpanExporter
	ratio    float64
}

// deliveryTimeout bounds one attempt to deliver spans. They wait in a bounded queue
// meanwhile, and are dropped beyond it; calls never wait for them.
const deliveryTimeout = 5 * time.Second

// NewTracing begins tracing. Nothing is connected to before there is a span to send.
func NewTracing(cfg TracingConfig) (*Tracing, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	// The only way to learn of lost spans is one for the whole process.
	otel.SetErrorHandler(&deliveryErrors{logger: cfg.Logger})
	exporter := cfg.Exporter
	if exporter == nil {
		to, err := tracesURL(cfg.Endpoint)
		if err != nil {
			return nil, err
		}
		exporter, err = otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(to), otlptracehttp.WithTimeout(deliveryTimeout))
		if err != nil {
			return nil, fmt.Errorf("tracing to %s: %w", to, err)
		}
	}
	about, err := resource.New(context.Background(),
		resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", "coordsvc"), attribute.String("service.version", cfg.Version)),
		resource.WithFromEnv()) // OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME, as operators of collectors expect
	if err != nil {
		return nil, fmt.Errorf("tracing: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	t := &Tracing{ratio: cfg.SampleRatio, exporter: exporter, provider: sdktrace.NewTracerProvider(
		sdktrace.WithResource(about),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())), // Call has chosen before
		sdktrace.WithBatcher(exporter, sdktrace.WithExportTimeout(2*deliveryTimeout)),
	)}
	t.tracer = t.provider.Tracer("github.com/coordsvc/coordsvc")
	return t, nil
}

// tracesURL is where spans are posted to.
func tracesURL(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", fmt.Errorf("tracing.endpoint: %q is no http:// or https:// URL of a collector", endpoint)
	}
	if !strings.HasSuffix(u.Path, "/v1/traces") {
		u = u.JoinPath("v1", "traces")
	}
	return u.String(), nil
}

// Close delivers the spans that are waiting, until ctx ends. What is being delivered
// then is broken off.
func (t *Tracing) Close(ctx context.Context) error {
	err := t.provider.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, t.exporter.Shutdown(context.WithoutCancel(ctx)))
	}
	return err
}

// Flush delivers the spans that have ended.
func (t *Tracing) Flush(ctx context.Context) error { return t.provider.ForceFlush(ctx) }

// deliveryErrors logs that spans are lost, once a minute at most: a collector that
// is down is no reason to fill the log.
type deliveryErrors struct {
	logger *slog.Logger
	last   atomic.Int64 // unix seconds
}

// Handle implements otel.ErrorHandler.
func (e *deliveryErrors) Handle(err error) {
	const pause = 60
	now, last := time.Now().Unix(), e.last.Load()
	if now-last >= pause && e.last.CompareAndSwap(last, now) {
		e.logger.Warn("traces are not delivered; look at tracing.endpoint and the collector behind it", "error", err)
	}
}

// traceparent is how callers say which trace a call belongs to:
// https://www.w3.org/TR/trace-context/. It is the same in gRPC metadata and HTTP headers.
var traceparent propagation.TraceContext

// TraceHeaders are the headers of W3C Trace Context.
func TraceHeaders() []string { return traceparent.Fields() }

// carrier reads gRPC metadata for traceparent.
type carrier metadata.MD

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(name string) string {
	if values := metadata.MD(c).Get(name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (c carrier) Set(name, value string) { metadata.MD(c).Set(name, value) }

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string {
	names := make([]string, 0, len(c))
	for name := range c {
		names = append(names, name)
	}
	return names
}

// Call begins the span of a call, in the trace of its caller where it has one, and
// returns a context with it. End it with CallSpan.End.
func (t *Tracing) Call(ctx context.Context, fullMethod, protocol, requestID string) (context.Context, CallSpan) {
	if given := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(given) > 0 {
		md, _ := metadata.FromIncomingContext(ctx)
		ctx = traceparent.Extract(ctx, carrier(md)) // one that is malformed changes nothing
	}
	if !trace.SpanContextFromContext(ctx).IsValid() && rand.Float64() >= t.ratio {
		return ctx, CallSpan{untraced} // the way of most calls costs next to nothing
	}
	name := strings.TrimPrefix(fullMethod, "/")
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	if span.IsRecording() {
		service, method, _ := strings.Cut(name, "/")
		span.SetAttributes(attribute.String("rpc.system", "grpc"), attribute.String("rpc.service", service),
			attribute.String("rpc.method", method), attribute.String("coordsvc.protocol", protocol),
			attribute.String("coordsvc.request_id", requestID))
	}
	return ctx, CallSpan{span}
}

var untraced = trace.SpanFromContext(context.Background())

// CallSpan is the span of a call.
type CallSpan struct{ span trace.Span }

// Recording reports whether anything told to the span is kept.
func (s CallSpan) Recording() bool { return s.span.IsRecording() }

// Asked tells what the call asks for.
func (s CallSpan) Asked(keyType string, keys int) {
	s.span.SetAttributes(attribute.String("coordsvc.key_type", keyType), attribute.Int("coordsvc.keys", keys))
}

// End ends the span. reason is that of an answer that is not OK; messages are kept
// out of spans, since they quote keys.
func (s CallSpan) End(code codes.Code, reason string) {
	if !s.span.IsRecording() {
		return
	}
	defer s.span.End()
	s.span.SetAttributes(attribute.Int("rpc.grpc.status_code", int(code)))
	if code != codes.OK {
		s.span.SetAttributes(attribute.String("error.type", reason))
	}
	switch code { // those that OpenTelemetry counts as the server's
	case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		s.span.SetStatus(otelcodes.Error, reason)
	default:
	}
}
