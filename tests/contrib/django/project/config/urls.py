"""The addresses of the project."""

from django.contrib import admin
from django.urls import path

from orders import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("plain", views.plain),
    path("async", views.aplain),
    path("customer", views.by_customer),
]
