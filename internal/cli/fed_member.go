// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// memberPatience is for how long a cluster may take to say which it is.
const memberPatience = 10 * time.Second

// readMemberID asks a cluster for what its agent knows it by: the UID of the namespace kube-system.
func readMemberID(ctx context.Context, kubeconfig string) (string, error) {
	id, err := askMemberID(ctx, kubeconfig)
	if err != nil {
		return "", fmt.Errorf("ask the cluster of %s which it is: %w; or give --id with what `kubectl get namespace kube-system -o jsonpath={.metadata.uid}` says there", kubeconfig, err)
	}
	return id, nil
}

func askMemberID(ctx context.Context, kubeconfig string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, memberPatience)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return "", err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/namespaces/kube-system", nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxFedAnswer))
	if err != nil {
		return "", err
	}
	var namespace struct {
		Message  string `json:"message"`
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(text, &namespace); err != nil || answer.StatusCode != http.StatusOK || namespace.Metadata.UID == "" {
		return "", fmt.Errorf("it answers %s %s", answer.Status, namespace.Message)
	}
	return namespace.Metadata.UID, nil
}
