package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

type connection struct {
	server, ca, certificate, key, agent string
	client                              *http.Client
}

// HTTP/1.1 with as many kept connections as there are workers: HTTP/2 would put them all on one, behind one another.
func (c *connection) open(parallel int) error {
	pem, err := os.ReadFile(c.ca)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return errors.New("no certificate in " + c.ca)
	}
	own, err := tls.LoadX509KeyPair(c.certificate, c.key)
	if err != nil {
		return err
	}
	c.client = &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}},
		MaxIdleConnsPerHost: parallel + 1,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
	}}
	return nil
}

func (c *connection) do(ctx context.Context, method, path, kind string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		request.Header.Set("Content-Type", kind)
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", c.agent)
	return c.client.Do(request)
}

// Sends until the server takes it: again after 429 and while a connection fails. The body is read to its end, so that
// the connection is kept.
func (c *connection) call(ctx context.Context, method, path, kind string, body []byte) (int, []byte, error) {
	for attempt := 1; ; attempt++ {
		response, err := c.do(ctx, method, path, kind, body)
		if err == nil {
			answer, readError := io.ReadAll(response.Body)
			response.Body.Close()
			if readError == nil && response.StatusCode != http.StatusTooManyRequests {
				return response.StatusCode, answer, nil
			}
			err = fmt.Errorf("%d %w", response.StatusCode, errors.Join(readError, errors.New("not taken")))
		}
		if attempt == 10 || ctx.Err() != nil {
			return 0, nil, err
		}
		time.Sleep(time.Duration(attempt) * 50 * time.Millisecond)
	}
}
