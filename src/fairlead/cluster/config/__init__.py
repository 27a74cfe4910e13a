"""Where a cluster is and which credentials it takes: kubeconfig, service account, exec plugins."""
