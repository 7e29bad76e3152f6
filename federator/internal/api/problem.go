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

// problem converts an error to a response: an invalid request, a refusal by the hub, or a hub that does not answer.
func problem(err error) error {
	status := statusOf(err)
	var details []error
	var fault *hub.Fault
	if errors.As(err, &fault) {
		for _, detail := range fault.Details {
			details = append(details, errors.New(detail))
		}
	}
	return huma.NewError(status, errorMessage(err), details...)
}

// errorMessage returns the message for an error. A hub that stops during a request may have done part of it.
func errorMessage(err error) string {
	if isUnreachable(err) {
		return "the hub does not answer; ask again when it does, which completes what was begun: " + err.Error()
	}
	return err.Error()
}

// isUnreachable reports whether the hub did not answer, or answered in part.
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
	// A hub without a kind that the federator needs counts as unavailable.
	if meta.IsNoMatchError(err) || isUnreachable(err) {
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// defaultError is huma's own constructor of errors.
var defaultError = huma.NewError

// newError explains how to correct a request that does not fit the document. The details name the errors.
func newError(status int, message string, details ...error) huma.StatusError {
	if message == "validation failed" {
		message = "the request does not fit /openapi.json; correct what is named"
	}
	return defaultError(status, message, details...)
}
