"""What is kept of user tokens, on the wire."""

from iris_fed.model.tokens import UserToken
from iris_fed.rpc.gen.irisfed import cluster_pb2


def user_token_to_wire(token: UserToken) -> cluster_pb2.UserToken:
    return cluster_pb2.UserToken(
        token_id=token.token_id,
        user=token.principal,
        role=token.role,
        note=token.note,
        created_by=token.created_by,
        created_ms=token.created_ms,
        expires_ms=token.expires_ms,
        revoked_ms=token.revoked_ms,
        revoked_by=token.revoked_by,
    )
