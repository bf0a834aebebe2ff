//! Certificates that are made for one test.

use std::fs;
use std::path::{Path, PathBuf};

use guard_redis::RedisGuardBuilder;
use guard_redis::redis::{Client, ClientTlsConfig, TlsCertificates};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use tempfile::TempDir;

/// An authority, with a server's and a client's certificate from it; all in one directory, which goes with this.
#[derive(Debug)]
pub struct Certificates {
    directory: TempDir,
}

impl Certificates {
    /// Makes certificates; the server's is for the hosts `names`.
    #[must_use]
    pub fn new(names: &[&str]) -> Self {
        Self::by("authority of a test", names)
    }

    /// Makes certificates of an authority of this name.
    #[must_use]
    pub fn by(authority: &str, names: &[&str]) -> Self {
        let this = Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
        };
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params
            .distinguished_name
            .push(DnType::CommonName, authority);
        let key = KeyPair::generate().expect("a key");
        let ca = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        this.write("ca.pem", &ca.pem());
        this.issue(&ca, "server", names, ExtendedKeyUsagePurpose::ServerAuth);
        this.issue(&ca, "client", &[], ExtendedKeyUsagePurpose::ClientAuth);
        this
    }

    fn issue(
        &self,
        ca: &CertifiedIssuer<'_, KeyPair>,
        name: &str,
        hosts: &[&str],
        usage: ExtendedKeyUsagePurpose,
    ) {
        let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts).expect("legal names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, ca).expect("a certificate");
        self.write(&format!("{name}.pem"), &certificate.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    fn write(&self, name: &str, pem: &str) {
        fs::write(self.path(name), pem).expect("a file is written");
    }

    /// What makes a `redis-server` speak TLS at `port`, with clients that have a certificate and with servers, and
    /// nothing else there.
    pub(crate) fn server_arguments(&self, port: &str) -> Vec<String> {
        let mut arguments: Vec<_> = [
            ["--port", "0"],
            ["--tls-port", port],
            ["--tls-replication", "yes"],
            ["--tls-cluster", "yes"],
        ]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect();
        let files = [
            ("--tls-cert-file", "server.pem"),
            ("--tls-key-file", "server.key"),
            // As which the server shows itself to other servers.
            ("--tls-client-cert-file", "client.pem"),
            ("--tls-client-key-file", "client.key"),
            ("--tls-ca-cert-file", "ca.pem"),
        ];
        arguments.extend(self.options(&files));
        arguments
    }

    /// What makes `redis-cli` speak TLS.
    pub(crate) fn client_arguments(&self) -> Vec<String> {
        let files = [
            ("--cert", "client.pem"),
            ("--key", "client.key"),
            ("--cacert", "ca.pem"),
        ];
        let mut arguments = vec!["--tls".to_owned()];
        arguments.extend(self.options(&files));
        arguments
    }

    fn options(&self, files: &[(&str, &str)]) -> Vec<String> {
        let option = |(option, name): &(&str, &str)| {
            [(*option).to_owned(), self.path(name).display().to_string()]
        };
        files.iter().flat_map(option).collect()
    }

    /// A builder that trusts the authority, and shows the client's certificate.
    pub fn introduce(&self, builder: RedisGuardBuilder) -> RedisGuardBuilder {
        builder
            .tls_ca_certificate(self.pem("ca.pem"))
            .tls_client_certificate(self.pem("client.pem"), self.pem("client.key"))
    }

    /// A client that trusts the authority, and shows the client's certificate.
    ///
    /// # Panics
    ///
    /// When `url` is none.
    #[must_use]
    pub fn client(&self, url: &str) -> Client {
        let certificates = TlsCertificates {
            client_tls: Some(ClientTlsConfig {
                client_cert: self.pem("client.pem"),
                client_key: self.pem("client.key"),
            }),
            root_cert: Some(self.pem("ca.pem")),
        };
        Client::build_with_tls(url, certificates).expect("a URL")
    }

    /// Where they are: `ca.pem`, `server.pem`, `server.key`, `client.pem` and `client.key`.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Where the file `name` is.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What the file `name` says.
    #[must_use]
    pub fn pem(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("it was written before")
    }
}
