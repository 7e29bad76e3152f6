// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
)

// problem is an error as an answer: what is wrong with the request, what the hub refuses, or why the hub cannot be asked.
func problem(err error) error {
	status := statusOf(err)
	var details []error
	var fault *hub.Fault
	if errors.As(err, &fault) {
		for _, detail := range fault.Details {
			details = append(details, errors.New(detail))
		}
	}
	return huma.NewError(status, sentence(err), details...)
}

// sentence is what is said of an error. A hub that ends in the midst of a request may have done part of it.
func sentence(err error) string {
	if isUnreachable(err) {
		return "the hub does not answer; ask again when it does, which completes what was begun: " + err.Error()
	}
	return err.Error()
}

// isUnreachable tells whether there is no answer of the hub, or half of one.
func isUnreachable(err error) bool {
	var fault *hub.Fault
	var unreachable net.Error
	return !errors.As(err, &fault) && (errors.As(err, &unreachable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.ErrUnexpectedEOF))
}

func statusOf(err error) int {
	var fault *hub.Fault
	if errors.As(err, &fault) {
		return fault.Status
	}
	var refused apierrors.APIStatus
	if errors.As(err, &refused) {
		if code := int(refused.Status().Code); code >= 400 && code < 600 {
			return code
		}
	}
	// A hub that lacks a kind that the federator works with is no hub.
	if meta.IsNoMatchError(err) || isUnreachable(err) {
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// ofHuma makes an error as huma does by itself.
var ofHuma = huma.NewError

// newError says of a request that does not fit the document what to do; what is wrong is in the details.
func newError(status int, message string, details ...error) huma.StatusError {
	if message == "validation failed" {
		message = "the request does not fit /openapi.json; correct what is named"
	}
	return ofHuma(status, message, details...)
}
