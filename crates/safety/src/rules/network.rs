//! Rules against reaching other machines, and against reaching other processes through sockets.

use super::{Condition, Rule, Severity, Target};

use Target::{Methods, Modules, Objects};

const TALKS: &str = "uses the network";
const OFFLINE: &str = "put the data into the script: there is no network";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "network/sockets",
        severity: Severity::Block,
        targets: &[
            Modules("socket _socket socketserver ssl _ssl asyncore asynchat zmq websockets"),
            Modules("websocket trio anyio gevent eventlet twisted tornado"),
        ],
        why: TALKS,
        remedy: OFFLINE,
        matches: &["import socket", "from socket import create_connection", "import ssl"],
        misses: &["import ipaddress\nipaddress.ip_address('1.2.3.4')", "socket = 1\nprint(socket)"],
    },
    Rule {
        id: "network/urllib",
        severity: Severity::Block,
        targets: &[Modules("urllib.request urllib.robotparser urllib2 urllib3")],
        why: TALKS,
        remedy: "put the data into the script; urllib.parse is allowed",
        matches: &[
            "import urllib.request",
            "from urllib import request",
            "from urllib.request import urlopen",
            "import urllib\nurllib.request.urlopen('http://a')",
        ],
        misses: &["from urllib.parse import urlparse\nurlparse('http://a')", "import urllib.error"],
    },
    Rule {
        id: "network/http",
        severity: Severity::Block,
        targets: &[
            Modules("http.client http.server http.cookiejar xmlrpc wsgiref requests httpx"),
            Modules("httpx2 httpcore httpcore2 aiohttp httplib2 pycurl mechanize scrapy"),
            Modules("selenium playwright uvicorn gunicorn openai anthropic jwt.PyJWKClient"),
        ],
        why: TALKS,
        remedy: OFFLINE,
        matches: &["import requests", "from http.client import HTTPConnection", "import httpx"],
        misses: &[
            "from http import HTTPStatus\nprint(HTTPStatus.OK)",
            "requests = [1]\nrequests.append(2)",
            "import http.cookies",
        ],
    },
    Rule {
        id: "network/asyncio",
        severity: Severity::Block,
        targets: &[
            Objects("asyncio.open_connection asyncio.open_unix_connection asyncio.start_server"),
            Objects("asyncio.start_unix_server"),
            Modules("asyncio.sslproto asyncio.trsock asyncio.unix_events"),
            Methods("open_connection start_server", Condition::Imported("asyncio")),
            Methods("create_connection create_server", Condition::Imported("asyncio")),
            Methods("create_datagram_endpoint create_unix_connection", Condition::Always),
            Methods("create_unix_server sock_connect", Condition::Always),
            // These methods query the name resolver. The query leaves this machine and reaches the name servers of the
            // queried name.
            Methods("getaddrinfo getnameinfo _ensure_resolved", Condition::Always),
            Methods("_getaddrinfo_debug", Condition::Always),
        ],
        why: TALKS,
        remedy: "asyncio.Queue passes data between the script's tasks",
        matches: &[
            "import asyncio\nasyncio.open_connection('a', 1)",
            "import asyncio\nloop.create_connection(f, 'a', 1)",
            "from asyncio import start_server",
            "import asyncio\nloop.getaddrinfo(host, 80)",
            "import asyncio\nresolve = asyncio.new_event_loop().getnameinfo\nresolve(('127.0.0.1', 80))",
        ],
        misses: &["import asyncio\nasyncio.gather(f(), g())", "db.create_connection()"],
    },
    Rule {
        id: "network/protocols",
        severity: Severity::Block,
        targets: &[
            Modules("ftplib telnetlib smtplib smtpd poplib imaplib nntplib paramiko asyncssh"),
            Modules("pysnmp ldap3 dns scapy nmap grpc pyghmi"),
        ],
        why: TALKS,
        remedy: OFFLINE,
        matches: &["import ftplib", "import smtplib", "from telnetlib import Telnet"],
        misses: &["import email.message\nemail.message.EmailMessage()"],
    },
    Rule {
        id: "network/services",
        severity: Severity::Block,
        targets: &[
            Modules("boto3 botocore google.cloud azure kubernetes docker pymongo redis psycopg"),
            Modules("psycopg2 pymysql MySQLdb mysql asyncpg cassandra elasticsearch kafka pika"),
            Modules("celery huggingface_hub yfinance wikipedia telegram slack_sdk ccxt"),
        ],
        why: "uses a service on the network",
        remedy: OFFLINE,
        matches: &["import boto3", "import redis", "from pymongo import MongoClient"],
        misses: &["redis = {}\nredis.get('a')", "import sqlalchemy"],
    },
];
